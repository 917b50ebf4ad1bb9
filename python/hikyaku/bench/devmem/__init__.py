# SPDX-License-Identifier: BSD-3-Clause
"""`bench devmem`: the routers' plans on emulated devices."""
