# SPDX-License-Identifier: BSD-3-Clause
"""The libfabric provider: where it is, and how a program finds it."""

import os

from . import hostd
from .checkout import built


def provider_settings() -> dict[str, str]:
    """libfabric loads the providers in these directories beside its own. The provider starts
    hikyakud."""
    ours = str(built("plugins/libfabric/libhikyaku-fi.so").parent)
    others = os.environ.get("FI_PROVIDER_PATH", "").split(":")
    path = ":".join([ours, *(o for o in others if o not in ("", ours))])
    return {"FI_PROVIDER_PATH": path, "HIKYAKU_DAEMON": hostd.program()}


def mpich_settings() -> dict[str, str]:
    """With these MPICH uses the provider, or none."""
    return provider_settings() | {"FI_PROVIDER": "hikyaku", "MPIR_CVAR_CH4_NETMOD": "ofi"}
