"""The service: scenes restored over HTTP (OGC API - Processes), with map tiles of scenes and results."""

from attcr.extras import need_extra

need_extra("serve")
