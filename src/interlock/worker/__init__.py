"""Workers: a host with the link and the heartbeat, and executor processes that do the work.

The host (`host.py`) runs no user code. The router gives each attempt to the executor of its kind of work: functions run
in executor processes (`pool.py`), programs under a guard per worker (`router.py: Programs`), so everything a program
forks ends with it, and the program ends with the worker. A program reads its payload as standard input from a file in
memory; its output is the log.

The host keeps an outcome until the scheduler has stored it. It keeps the latest progress, usage and checkpoint as well,
and log lines for two seconds. It reports a start after 5 ms, and omits it if the attempt has ended by then
(`reports.py`). Reports carry ages, so the history has the worker's times.

`Drain` asks an executor process without attempts to leave the app's lifespan; KILL follows after 5 s. If the first
process of a worker cannot start, the worker tells the scheduler why over a link of its own (`Unready`) and ends; its
supervisor starts it again with backoff. If a later process cannot start, its attempts are `Returned`, and the host
holds back new ones until its own backoff is over (`pool.py: HeldBack`). A reload imports the app again in the
scheduler, its own modules only (`app_loader.py`).
"""
