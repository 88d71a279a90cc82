# SPDX-License-Identifier: Apache-2.0
# Where this process is, by its environment: the program, the agent and the library ask.
mst_library(mst_surroundings SOURCES ${CMAKE_CURRENT_LIST_DIR}/surroundings.c LINK mst_discover mst_base)
