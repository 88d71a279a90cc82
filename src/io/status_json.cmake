# SPDX-License-Identifier: Apache-2.0
# The status of a job as JSON, for the program and the service's HTTP port.
mst_library(mst_status_json SOURCES ${CMAKE_CURRENT_LIST_DIR}/status_json.c ${CMAKE_CURRENT_LIST_DIR}/preemption.c
        ${CMAKE_CURRENT_LIST_DIR}/clusters.c
    LINK mst_items mst_msg mst_base PkgConfig::jansson)
