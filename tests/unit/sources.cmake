# SPDX-License-Identifier: Apache-2.0
mst_test(sources_words_test SOURCES sources_words_test.c LINK mst_sources_words mst_base mst_panic_abort)
mst_test(sources_test SOURCES sources_test.c LINK mst_sources mst_sources_words mst_metadata mst_base mst_panic_abort)
