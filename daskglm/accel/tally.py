"""What was called: fits that were taken, those that scikit-learn did, and why."""

from __future__ import annotations

import logging
import threading
from collections import Counter
from dataclasses import dataclass, field

LOG = logging.getLogger("daskglm.accel")


@dataclass
class Tally:
    """Counts of one process, by the name of the class.

    `seconds` are those of the fits taken, with checks; `theirs` are those that scikit-learn took
    for the same calls, where they were compared.
    """

    taken: Counter[str] = field(default_factory=Counter)
    seconds: Counter[str] = field(default_factory=Counter)
    theirs: Counter[str] = field(default_factory=Counter)
    fallen: Counter[tuple[str, str]] = field(default_factory=Counter)
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def take(self, name: str, seconds: float, theirs: float | None = None) -> None:
        """Count a fit of ours."""
        with self._lock:
            self.taken[name] += 1
            self.seconds[name] += seconds  # type: ignore[assignment]
            if theirs is not None:
                self.theirs[name] += theirs  # type: ignore[assignment]

    def fall(self, name: str, why: str) -> None:
        """Count a fit of scikit-learn's, and tell its reason when it is new."""
        with self._lock:
            self.fallen[name, why] += 1
            new = self.fallen[name, why] == 1
        if new:
            LOG.info("%s: scikit-learn's own fit is called: %s", name, why)

    def clear(self) -> None:
        """Forget all calls."""
        with self._lock:
            for counts in (self.taken, self.seconds, self.theirs, self.fallen):
                counts.clear()

    def text(self) -> str:
        """The report: a line for each class, and one below it for each reason."""
        names = sorted({*self.taken, *(name for name, _ in self.fallen)})
        if not names:
            return "daskglm.accel: no fit was called"
        lines = [
            f"daskglm.accel: {self.taken.total()} fits taken, {self.fallen.total()} fallen back"
        ]
        for name in names:
            reasons = {why: count for (of, why), count in self.fallen.items() if of == name}
            line = f"  {name}: {self.taken[name]} taken"
            if self.taken[name]:
                line += f" ({self.seconds[name]:.3g} s{self._beside(name)})"
            if reasons:
                line += f", {sum(reasons.values())} fallen back"
            lines.append(line)
            lines += [f"    {count} x {why}" for why, count in reasons.items()]
        return "\n".join(lines)

    def _beside(self, name: str) -> str:
        """What scikit-learn took for the same calls, if it was measured."""
        if name not in self.theirs:
            return ""
        saved = self.theirs[name] - self.seconds[name]
        return f"; scikit-learn {self.theirs[name]:.3g} s, saved {saved:.3g} s"
