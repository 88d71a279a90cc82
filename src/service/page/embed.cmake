# SPDX-License-Identifier: Apache-2.0
# PARTS, a list of files, as arrays of C in OUT: `page.css` is `static const char page_css[]`.
set(text "")
foreach(file ${PARTS})
    get_filename_component(name ${file} NAME)
    string(MAKE_C_IDENTIFIER ${name} name)
    file(READ ${file} bytes HEX)
    string(REGEX REPLACE "(................)" "\\1\n" bytes "${bytes}")
    string(REGEX REPLACE "([0-9a-f][0-9a-f])" "'\\\\x\\1'," bytes "${bytes}")
    string(APPEND text "static const char ${name}[] = {\n${bytes}\n};\n")
endforeach()
file(WRITE ${OUT} "${text}")
