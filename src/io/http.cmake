# SPDX-License-Identifier: Apache-2.0
# Health and metrics over HTTP. The commit is that of the last configuration, which a commit renews.
find_package(Git QUIET)
set(MST_BUILD_COMMIT unknown)
if(GIT_FOUND)
    execute_process(COMMAND ${GIT_EXECUTABLE} rev-parse --short=12 HEAD
        WORKING_DIRECTORY ${CMAKE_SOURCE_DIR} OUTPUT_VARIABLE commit RESULT_VARIABLE failed
        OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
    execute_process(COMMAND ${GIT_EXECUTABLE} rev-parse --git-path logs/HEAD
        WORKING_DIRECTORY ${CMAKE_SOURCE_DIR} OUTPUT_VARIABLE head_log
        OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
    get_filename_component(head_log "${head_log}" ABSOLUTE BASE_DIR ${CMAKE_SOURCE_DIR})
    if(NOT failed)
        set(MST_BUILD_COMMIT ${commit})
    endif()
    if(EXISTS "${head_log}")
        set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${head_log}")
    endif()
endif()
mst_library(mst_http
    SOURCES ${CMAKE_CURRENT_LIST_DIR}/exposition.c ${CMAKE_CURRENT_LIST_DIR}/http.c
        ${CMAKE_CURRENT_LIST_DIR}/http_places.c
        ${CMAKE_CURRENT_LIST_DIR}/metrics.c
    LINK mst_core mst_status_json mst_secret mst_msg mst_base Threads::Threads
    PkgConfig::libmicrohttpd)
set_source_files_properties(${CMAKE_CURRENT_LIST_DIR}/metrics.c PROPERTIES COMPILE_DEFINITIONS
    "MST_BUILD_VERSION=\"${PROJECT_VERSION}\";MST_BUILD_COMMIT=\"${MST_BUILD_COMMIT}\"")
