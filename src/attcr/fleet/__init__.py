"""Many scenes: what is to do, what is done, and who does it."""

from attcr.extras import need_extra

need_extra("fleet")
