# SPDX-License-Identifier: Apache-2.0
# Whether there are any left: the service, the agent and the library ask.
mst_library(mst_descriptors SOURCES ${CMAKE_CURRENT_LIST_DIR}/descriptors.c)
