"""What a program uses to submit runs and to wait for them."""
