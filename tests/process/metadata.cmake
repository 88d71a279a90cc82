# SPDX-License-Identifier: Apache-2.0
add_executable(tell_notices tell_notices.c ${CMAKE_SOURCE_DIR}/src/base/panic_abort.c)
target_link_libraries(tell_notices PRIVATE mst_flags mst_sources)
add_library(curl_before MODULE curl_before.c)
target_include_directories(curl_before PRIVATE ${libcurl_INCLUDE_DIRS})
target_link_libraries(curl_before PRIVATE mst_flags ${CMAKE_DL_LIBS})
