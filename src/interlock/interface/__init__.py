"""What HTTP, clients and the command line share, each declared once: operations, queries, bodies and views."""
