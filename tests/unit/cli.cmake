# SPDX-License-Identifier: Apache-2.0
mst_test(schedule_test SOURCES schedule_test.c ${CMAKE_SOURCE_DIR}/src/cli/schedule.c LINK mst_base mst_panic_abort)
mst_test(print_test SOURCES print_test.c ${CMAKE_SOURCE_DIR}/src/cli/print.c
    LINK mst_proto mst_base mst_panic_abort PkgConfig::jansson)
if(TARGET muster_static)
    set(LOOK ${CMAKE_SOURCE_DIR}/src/cli/look)
    mst_test(status_test SOURCES status_test.c ${CMAKE_SOURCE_DIR}/src/cli/status.c ${LOOK}/clusters.c ${LOOK}/gather.c
        ${LOOK}/members.c ${LOOK}/nodes.c ${LOOK}/notices.c ${LOOK}/text.c
        ${CMAKE_SOURCE_DIR}/src/cli/print.c LINK mst_view muster_static mst_proto mst_base PkgConfig::jansson)
    # Answers in the service's place.
    target_link_options(status_test PRIVATE -Wl,--wrap=mst_lib_items_collect)
endif()
mst_test(synonyms_test SOURCES synonyms_test.c ${CMAKE_SOURCE_DIR}/src/cli/synonyms.c ${CMAKE_SOURCE_DIR}/src/cli/devices.c)
mst_test(kept_test SOURCES kept_test.c LINK mst_view mst_proto mst_base mst_panic_abort)
mst_test(story_test SOURCES story_test.c LINK mst_view mst_page mst_proto mst_base mst_panic_abort)
mst_test(verdict_test SOURCES verdict_test.c LINK mst_view mst_proto mst_base mst_panic_abort)
mst_test(top_screen_test SOURCES top_screen_test.c LINK mst_view mst_proto mst_base mst_panic_abort)
