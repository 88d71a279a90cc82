# SPDX-License-Identifier: Apache-2.0
add_executable(crowd crowd.c)
target_link_libraries(crowd PRIVATE mst_flags muster)
# Speaks TLS by itself, as nobody of ours would.
add_executable(intruder intruder.c)
target_include_directories(intruder SYSTEM PRIVATE ${MUSTER_OPENSSL_INCLUDE})
target_link_libraries(intruder PRIVATE mst_flags ssl crypto)
# What a machine without OpenSSL 3 may have under its name.
add_library(ssl_without SHARED ssl_without.c)
set_target_properties(ssl_without PROPERTIES OUTPUT_NAME ssl SOVERSION 3
    LIBRARY_OUTPUT_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR}/ssl_without)
