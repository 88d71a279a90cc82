# SPDX-License-Identifier: Apache-2.0
mst_test(secret_test SOURCES secret_test.c LINK mst_net mst_panic_abort)
# The panic as a source: nothing here needs it before mst_base does.
mst_test(tls_test SOURCES tls_test.c LINK mst_net mst_panic_abort)
