# SPDX-License-Identifier: Apache-2.0
# The consensus of replicas, libraft, which is optional. Its archive is linked into programs, so that none
# needs one more library at run time: into `muster` and the tests, and not into the library.
set(MUSTER_RAFT AUTO CACHE STRING "Replicas of the service: ON, OFF, or AUTO: if libraft is there")
set_property(CACHE MUSTER_RAFT PROPERTY STRINGS AUTO ON OFF)
set(MUSTER_RAFT_VERSION 0.22.1) # src/service/replica/engine.h says why no other

find_path(MUSTER_RAFT_INCLUDE raft.h)
find_library(MUSTER_RAFT_ARCHIVE libraft.a)
mark_as_advanced(MUSTER_RAFT_INCLUDE MUSTER_RAFT_ARCHIVE)

set(raft_version "")
if(EXISTS "${MUSTER_RAFT_INCLUDE}/raft.h" AND EXISTS "${MUSTER_RAFT_ARCHIVE}")
    file(STRINGS ${MUSTER_RAFT_INCLUDE}/raft.h numbers REGEX "#define RAFT_VERSION_(MAJOR|MINOR|RELEASE) ")
    list(TRANSFORM numbers REPLACE ".* " "")
    list(JOIN numbers . raft_version)
    set(raft_lacks "libraft ${MUSTER_RAFT_VERSION}, and this is another version: ${raft_version}")
else()
    set(raft_lacks "libraft-dev ${MUSTER_RAFT_VERSION} (tools/deps --replicas)")
endif()

set(MUSTER_RAFT_FOUND OFF)
if(MUSTER_RAFT STREQUAL "OFF")
    set(raft_lacks "-DMUSTER_RAFT=ON or AUTO")
elseif(raft_version STREQUAL MUSTER_RAFT_VERSION)
    set(MUSTER_RAFT_FOUND ON)
elseif(MUSTER_RAFT STREQUAL "ON")
    message(FATAL_ERROR "MUSTER_RAFT=ON wants ${raft_lacks}")
else()
    message(STATUS "No replicas: they want ${raft_lacks}")
endif()

if(MUSTER_RAFT_FOUND)
    add_library(mst_raft INTERFACE)
    target_include_directories(mst_raft SYSTEM INTERFACE ${MUSTER_RAFT_INCLUDE})
    target_link_libraries(mst_raft INTERFACE ${MUSTER_RAFT_ARCHIVE})
    target_compile_definitions(mst_raft INTERFACE MST_RAFT)
endif()

# A test of replicas that cannot be built is skipped, and says why.
function(mst_test_without_raft name)
    add_test(NAME ${name} COMMAND ${CMAKE_COMMAND} -E echo "SKIPPED [1] ${name}: wants ${raft_lacks}")
    set_tests_properties(${name} PROPERTIES SKIP_REGULAR_EXPRESSION "^SKIPPED")
endfunction()
