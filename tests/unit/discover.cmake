# SPDX-License-Identifier: Apache-2.0
mst_test(discover_test SOURCES discover_test.c LINK mst_discover mst_base mst_panic_abort)
mst_test(nodelist_test SOURCES nodelist_test.c LINK mst_discover mst_base mst_panic_abort)
