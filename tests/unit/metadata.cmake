# SPDX-License-Identifier: Apache-2.0
mst_test(date_test SOURCES date_test.c LINK mst_metadata mst_base mst_panic_abort)
mst_test(metadata_test SOURCES metadata_test.c ${CMAKE_SOURCE_DIR}/src/base/panic_abort.c LINK mst_metadata)
