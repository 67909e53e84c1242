"""What quadratic penalties 1/2 w'P w share: all follows from the product of a vector with P."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any


class Quadratic(ABC):
    """A penalty that multiplies vectors by its Hessian P."""

    @abstractmethod
    def hessian_vector(self, v: Any) -> Any:
        """Multiply v by the Hessian."""

    def value_and_gradient(self, w: Any) -> tuple[float, Any]:
        """Return the penalty at w and its gradient."""
        gradient = self.hessian_vector(w)
        return 0.5 * float(w @ gradient), gradient

    def value(self, w: Any) -> float:
        """Return the penalty at w."""
        return self.value_and_gradient(w)[0]

    def gradient(self, w: Any) -> Any:
        """Return the gradient at w."""
        return self.hessian_vector(w)
