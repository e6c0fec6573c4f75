"""Links to whichever of several places has the scheduler that leads."""

import asyncio
import logging
from collections import deque
from collections.abc import Sequence

from interlock.buses.tls import REMEDY
from interlock.error import InterlockError, NotRunning, Refused, TokenRefused, WrongCertificate
from interlock.ports.bus import Bus, Endpoint, Peer

logger = logging.getLogger("interlock.links")


FIRST_LIMIT, LAST_LIMIT = 2.0, 10.0  # seconds for the answer of a place


class SeveralPlaces(Bus):
    """Only the leader listens, so at most one place answers. The search begins behind the place of the last link: one
    that stands still still accepts connections. It must not keep the search from the next leader either, so each place
    has little time to answer; the time doubles, because a leader to which everybody comes at once answers late."""

    def __init__(self, places: Sequence[Bus]) -> None:
        self._places = deque(places)
        self._limit = FIRST_LIMIT
        self._was_accepted = False

    def __str__(self) -> str:
        return ", ".join(sorted(map(str, self._places)))

    async def listen(self, endpoint: Endpoint) -> None:
        raise Refused("link: several places are for connecting; a scheduler listens at one")

    async def connect(self, endpoint: Endpoint) -> Peer:
        """Try each place once. If none answers, raise the refusal of one that is wrong before one that is silent; but
        once a scheduler has accepted this side, a place that is wrong is like one that is away."""
        silent: list[NotRunning] = []
        wrong: list[InterlockError] = []
        limit = self._limit
        for _ in range(len(self._places)):
            place = self._places[0]
            self._places.rotate(-1)
            try:
                async with asyncio.timeout(limit):
                    peer = await place.connect(endpoint)
            except TimeoutError:
                silent.append(NotRunning(str(place), REMEDY, f"no answer within {limit:g}s"))
                self._limit = min(2 * limit, LAST_LIMIT)
            except NotRunning as error:
                silent.append(error)
            except (WrongCertificate, TokenRefused) as error:
                wrong.append(error)
            else:
                self._limit, self._was_accepted = FIRST_LIMIT, True
                return peer
        if wrong and self._was_accepted:
            logger.warning("%s", wrong[0])
            raise NotRunning(str(self)) from wrong[0]
        raise wrong[0] if wrong else NotRunning(", ".join(error.place for error in silent), silent[0].remedy)

    async def close(self) -> None:
        for place in self._places:
            await place.close()
