# SPDX-License-Identifier: Apache-2.0
# Bugs of the product itself: a copy of a source file in which a text is replaced by another one that asks whether the
# bug is wanted (plant.h). The program of the simulator has the copies in the place of the library's files. A text that
# is not there any more, or is there twice, stops the configuration: the bug must be planted anew.

set(planted_from ${CMAKE_CURRENT_SOURCE_DIR}/../../src/service)
set(planted_to ${CMAKE_CURRENT_BINARY_DIR}/planted)
set(planted_files)

# planted(FILE RIGHT WRONG)
function(planted file right wrong)
    get_filename_component(name ${file} NAME)
    set(out ${planted_to}/planted_${name})
    if(out IN_LIST planted_files)
        set(text "${planted_${name}}")
    else()
        file(READ ${planted_from}/${file} text)
        set(text "#include \"${CMAKE_CURRENT_SOURCE_DIR}/replicas/plant.h\"\n${text}")
        set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${planted_from}/${file})
    endif()
    string(REPLACE "${right}" "" without "${text}")
    string(LENGTH "${text}" size)
    string(LENGTH "${without}" size_without)
    string(LENGTH "${right}" size_right)
    math(EXPR found "(${size} - ${size_without}) / ${size_right}")
    if(NOT found EQUAL 1)
        message(FATAL_ERROR "src/service/${file} has ${found} times, not once: ${right}")
    endif()
    string(REPLACE "${right}" "${wrong}" text "${text}")
    set(planted_${name} "${text}" PARENT_SCOPE)
    list(APPEND planted_files ${out})
    list(REMOVE_DUPLICATES planted_files)
    set(planted_files ${planted_files} PARENT_SCOPE)
endfunction()

planted(replica/step.c
"    status = mst_replica_log_vote(replica->log, term, vote);
    if (status == MUSTER_OK) {
        status"
"    status = mst_replica_log_vote(replica->log, term, vote);
    if (status == MUSTER_OK && !PLANT(VOTE_UNWRITTEN)) {
        status")
planted(replica/step.c
"mst_replica_log_append(replica->log, update->entries.index, replica->batch, count)"
"mst_replica_log_append(replica->log, update->entries.index - (PLANT(TRUNCATED) && update->entries.index > mst_replica_log_first(replica->log) + 1), replica->batch, count)")
planted(replica/replica.c
"if (count > begin && replica->batch_in[count].type == MST_REPLICA_CHANGE) {"
"if (count > begin && replica->batch_in[count].type == MST_REPLICA_CHANGE && !PLANT(UNCUT)) {")
planted(replica/voters.c
"if (decision.step == MST_VOTERS_NONE && view.voters > view.target) {"
"if (decision.step == MST_VOTERS_NONE && (view.voters > view.target || (PLANT(DEAD_REMOVED) && view.dead > 0))) {")
planted(core/resume.c
"    mst_session_extend_all(core);"
"    if (!PLANT(SHORT_RESUME)) {
        mst_session_extend_all(core);
    }")

foreach(out ${planted_files})
    get_filename_component(name ${out} NAME)
    string(REGEX REPLACE "^planted_" "" name ${name})
    file(CONFIGURE OUTPUT ${out} CONTENT "${planted_${name}}" @ONLY)
endforeach()
