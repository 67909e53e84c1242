"""What columns may be beside the features."""

from __future__ import annotations

ROLES = ("offset", "exposure", "sample_weight", "clusters")
