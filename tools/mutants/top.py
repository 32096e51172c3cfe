"""Mistakes in modules at the top."""

from .mutant import of

MUTANTS = [
    *of(
        "addresses.py",
        ("tests/serve/test_hostile.py::test_a_name_that_leads_into_a_private_network_is_refused",),
        ("dressed-up-addresses", "ip.version == net.version and ip in net for net", "ip is net for net"),
    ),
    *of(
        "addresses.py",
        ("tests/test_addresses.py", "tests/serve/test_hostile.py"),
        (
            "any-global-address",
            "return ip.is_global and not ip.is_multicast and not ip.is_reserved",
            "return ip.is_global",
        ),
    ),
]
