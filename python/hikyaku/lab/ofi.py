# SPDX-License-Identifier: BSD-3-Clause
"""MPIs that use the libfabric provider: their settings in a lab.

The environment of the launcher reaches all ranks, since agent.sh starts the nodes in place of ssh.
"""

from collections.abc import Mapping

from .. import mpi
from ..errors import HikyakuError
from ..ofi import mpich_settings, provider_settings
from .job import Job

# The lab's settings for the BTL, which an Open MPI of the package index does not know.
_OF_THE_BTL = (
    "OMPI_MCA_mca_base_component_path",
    "PMIX_MCA_mca_base_component_path",
    "OMPI_MCA_btl",
)


def check(job: Job) -> None:
    """Raises an error if @job asks for what only the BTL has here."""
    if job.tag:
        raise HikyakuError("--tag is for Open MPI's BTL", "leave out --tag or --mpi")


def _of_mpi(name: str, provider: str) -> dict[str, str]:
    """The settings with which @name uses @provider."""
    if name == "mpich":
        return mpich_settings() | {"FI_PROVIDER": provider}
    if name == "impi":
        root = mpi.install(name)
        own = str(root / "lib")
        its = {"I_MPI_ROOT": str(root), "LD_LIBRARY_PATH": own, "I_MPI_FABRICS": "shm:ofi"}
        if provider == "tcp":  # which it takes if it finds no other one, and not by its name
            return its | {"FI_PROVIDER_PATH": own}
        ours = provider_settings()
        path = f"{ours['FI_PROVIDER_PATH']}:{own}"
        return its | ours | {"FI_PROVIDER_PATH": path, "I_MPI_OFI_PROVIDER": provider}
    # libfabric 1.17 has its tcp below a provider for connections
    connected = name == mpi.OPENMPI and provider == "tcp"
    return provider_settings() | {
        "OMPI_MCA_pml": "cm",
        "OMPI_MCA_mtl": "ofi",
        "OMPI_MCA_mtl_ofi_provider_include": "tcp;ofi_rxm" if connected else provider,
        # windows by messages: UCX, which the machine's Open MPI prefers, is another network
        **({"OMPI_MCA_osc": "pt2pt,sm"} if name == mpi.OPENMPI else {}),
    }


def settings(
    ours: dict[str, str],
    user: Mapping[str, str],
    name: str,
    port: str,
    mode: str | None,
    *,
    tcp: bool,
    shared: bool,
) -> dict[str, str]:
    """@ours, the lab's, for MPI @name. @user: the user's environment. @port: the port spec of every
    rank. @mode: the polling mode. @tcp: by libfabric's own provider, on the lab's TCP wire.
    @shared: ranks share cores."""
    kept = {key: value for key, value in ours.items() if key not in _OF_THE_BTL}
    if tcp:
        return kept | _of_mpi(name, "tcp") | {"FI_TCP_IFACE": "tcp0"}
    provider = {"FI_HIKYAKU_PORT": port, "FI_HIKYAKU_YIELD": str(int(shared))}
    if mode:
        provider["FI_HIKYAKU_MODE"] = mode
    if shared and "FI_HIKYAKU_PEER_TIMEOUT_MS" not in user:
        # Their launchers start each node, or each rank, in a session of its own. Linux 6.18 can
        # keep a session off a core for half a minute: ranks would declare each other dead.
        provider["FI_HIKYAKU_PEER_TIMEOUT_MS"] = "120000"
    return kept | _of_mpi(name, "hikyaku") | provider
