"""Submit, wait, stream and cancel, in a program without an event loop."""

from datetime import date

import interlock as il
from examples.newcomer.jobs import research, watch


def main() -> None:
    with il.Client() as client:
        run = client.submit(research.options(key="owls-2030").call(date(2030, 2, 1), ["owls"]))
        for _, event in client.events(run=run.id, types="log"):
            if isinstance(event, il.LogEvent):
                print(event.text)
        print(run.result("60s").findings)
        endless = client.submit(watch.call())
        endless.cancel()
        try:
            endless.result("60s")
        except il.RunCancelled as error:
            print(error.state)


if __name__ == "__main__":
    main()
