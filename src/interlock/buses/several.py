"""Links to whichever of several places has the scheduler that leads."""

import logging
from collections import deque
from collections.abc import Sequence

from interlock.error import InterlockError, NotRunning, Refused, TokenRefused, WrongCertificate
from interlock.ports.bus import Bus, Endpoint, Peer

logger = logging.getLogger("interlock.links")


class SeveralPlaces(Bus):
    """Only the leader listens, so at most one place answers. The search begins behind the place of the last link: one
    that stands still still accepts connections."""

    def __init__(self, places: Sequence[Bus]) -> None:
        self._places = deque(places)

    def __str__(self) -> str:
        return ", ".join(sorted(map(str, self._places)))

    async def listen(self, endpoint: Endpoint) -> None:
        raise Refused("link: several places are for connecting; a scheduler listens at one")

    async def connect(self, endpoint: Endpoint) -> Peer:
        """Try each place once. If none answers, raise the refusal of one that is wrong before one that is silent."""
        silent: list[NotRunning] = []
        wrong: list[InterlockError] = []
        for _ in range(len(self._places)):
            place = self._places[0]
            self._places.rotate(-1)
            try:
                return await place.connect(endpoint)
            except NotRunning as error:
                silent.append(error)
            except (WrongCertificate, TokenRefused) as error:
                wrong.append(error)
        raise (wrong or silent)[0]

    async def close(self) -> None:
        for place in self._places:
            await place.close()
