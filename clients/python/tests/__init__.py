"""Tests of the client, without the service: `python -m unittest` in the package's folder."""

import logging

logging.getLogger("raindrop_client").addHandler(logging.NullHandler())
logging.getLogger("asyncio").setLevel(logging.ERROR)
