# Precompiled headers for builds that compile everything, as continuous integration does: a third of such a build is
# the parsing of the standard library, fmt and GoogleTest. CMake's own way (target_precompile_headers) does not go with
# a compiler cache that several clones share: the compiled header names its clone's paths, so no object of one clone would
# serve the next. Here the cache is told what the header says (.pch.sum, see CCACHE_PCH_EXTSUM) instead of its bytes.
#
# RAMCLOUD_PRECOMPILE is ON, OFF, or the one KIND for which it is on.
macro(ramcloud_precompiles kind result)
  if("${RAMCLOUD_PRECOMPILE}" STREQUAL "ON" OR "${RAMCLOUD_PRECOMPILE}" STREQUAL "${kind}")
    set(${result} TRUE)
  else()
    set(${result} FALSE)
  endif()
endmacro()

# ramcloud_precompiled_header(KIND [CODE] FLAGS…): KIND.h of this folder, compiled as targets of this directory are, and
# FLAGS. CODE: its inline functions, too, into a library, so that the files behind it need not each have their own.
function(ramcloud_precompiled_header kind)
  cmake_parse_arguments(A "CODE" "" "" ${ARGN})
  ramcloud_precompiles(${kind} wanted)
  if(NOT wanted)
    return()
  endif()
  string(TOUPPER "${CMAKE_BUILD_TYPE}" type)
  separate_arguments(flags UNIX_COMMAND "${CMAKE_CXX_FLAGS} ${CMAKE_CXX_FLAGS_${type}}")
  get_directory_property(options COMPILE_OPTIONS)
  get_directory_property(definitions COMPILE_DEFINITIONS)
  foreach(library fmt::fmt GTest::gtest)
    if(TARGET ${library})
      get_target_property(its ${library} INTERFACE_COMPILE_DEFINITIONS)
      if(its)
        list(APPEND definitions ${its})
      endif()
      get_target_property(its ${library} INTERFACE_COMPILE_OPTIONS)
      if(its)
        list(APPEND options ${its})
      endif()
    endif()
  endforeach()
  list(TRANSFORM definitions PREPEND -D)
  set(header ${PROJECT_SOURCE_DIR}/precompiled/${kind}.h)
  set(out ${CMAKE_BINARY_DIR}/precompiled/${kind}.pch)
  file(MAKE_DIRECTORY ${CMAKE_BINARY_DIR}/precompiled)
  set(compile ${CMAKE_CXX_COMPILER} ${flags} ${CMAKE_CXX23_STANDARD_COMPILE_OPTION} ${options} ${definitions} ${A_UNPARSED_ARGUMENTS})
  if(CMAKE_INTERPROCEDURAL_OPTIMIZATION AND NOT A_CODE)
    list(APPEND compile ${CMAKE_CXX_COMPILE_OPTIONS_IPO})
  endif()
  set(header_with -Xclang -fno-pch-timestamp -fpch-instantiate-templates)
  if(A_CODE)
    list(APPEND header_with -fpch-codegen)
  endif()
  add_custom_command(
    OUTPUT ${out} ${out}.sum
    COMMAND ${compile} -x c++-header ${header} -E -P -dD -o ${out}.text
    COMMAND ${CMAKE_COMMAND} -E echo "${header_with}" >> ${out}.text
    COMMAND ${CMAKE_COMMAND} -E sha256sum ${kind}.pch.text > ${out}.sum
    COMMAND ${CMAKE_COMMAND} -E rm ${out}.text
    COMMAND ${compile} -x c++-header ${header} ${header_with} -MD -MT ${out} -MF ${out}.d -o ${out}
    DEPFILE ${out}.d
    WORKING_DIRECTORY ${CMAKE_BINARY_DIR}/precompiled
    COMMENT "Precompiling ${kind}.h"
    VERBATIM)
  add_custom_target(ramcloud_precompiled_${kind} DEPENDS ${out} ${out}.sum)
  if(A_CODE)
    add_custom_command(
      OUTPUT ${out}.o
      COMMAND ${compile} -Wno-unused-command-line-argument -ffunction-sections -c ${out} -o ${out}.o
      DEPENDS ${out}
      COMMENT "Compiling the inline functions of ${kind}.h"
      VERBATIM)
    set_source_files_properties(${out}.o PROPERTIES EXTERNAL_OBJECT TRUE GENERATED TRUE)
    add_library(ramcloud_precompiled_${kind}_code STATIC ${out}.o)
    set_target_properties(ramcloud_precompiled_${kind}_code PROPERTIES LINKER_LANGUAGE CXX)
    # Some inline function of the standard library calls what the library keeps to itself; nobody calls that one.
    target_link_options(ramcloud_precompiled_${kind}_code INTERFACE -Wl,--gc-sections)
  endif()
endfunction()

# ramcloud_use_precompiled(TARGET KIND): every C++ file of the target is compiled behind that header.
function(ramcloud_use_precompiled target kind)
  ramcloud_precompiles(${kind} wanted)
  if(wanted)
    target_compile_options(${target} PRIVATE "$<$<COMPILE_LANGUAGE:CXX>:SHELL:-include-pch ${CMAKE_BINARY_DIR}/precompiled/${kind}.pch>")
    add_dependencies(${target} ramcloud_precompiled_${kind})
    if(TARGET ramcloud_precompiled_${kind}_code)
      target_link_libraries(${target} PUBLIC ramcloud_precompiled_${kind}_code)
    endif()
  endif()
endfunction()
