# CPack: `cpack -G TGZ` in any tree; `cpack -G DEB` in one with BUILD_SHARED_LIBS and the prefix /usr, which takes the
# static libraries from the tree TIMING_WHEEL_STATIC_TREE, if that is given. packaging/deb/build does both.
set(TIMING_WHEEL_STATIC_TREE "" CACHE PATH "Another build of this version, whose static libraries go into packages")
set(TIMING_WHEEL_MAINTAINER "" CACHE STRING "Who answers for Debian packages: NAME <ADDRESS>")
set(TIMING_WHEEL_DEB_REVISION 1 CACHE STRING "The revision of Debian packages")

set(CPACK_PACKAGE_NAME timing_wheel)
set(CPACK_PACKAGE_VENDOR timing_wheel)
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "")  # each package has its own
set(CPACK_RESOURCE_FILE_LICENSE ${PROJECT_SOURCE_DIR}/LICENSE)
set(CPACK_GENERATOR TGZ)
set(CPACK_STRIP_FILES ON)
set(CPACK_VERBATIM_VARIABLES ON)
set(CPACK_INSTALL_CMAKE_PROJECTS "${PROJECT_BINARY_DIR};timing_wheel;ALL;/")
if(TIMING_WHEEL_STATIC_TREE)
  # First, so that what both have is this tree's.
  list(PREPEND CPACK_INSTALL_CMAKE_PROJECTS "${TIMING_WHEEL_STATIC_TREE};timing_wheel;ALL;/")
endif()

set(abi_version ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})
set(deb_version ${PROJECT_VERSION}-${TIMING_WHEEL_DEB_REVISION})
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_COMPONENTS_ALL timing_wheel_runtime timing_wheel_development)
if(TARGET timing_wheel_durable)
  list(APPEND CPACK_COMPONENTS_ALL timing_wheel_durable_runtime timing_wheel_durable_development)
endif()
if(TARGET timing_wheel_desk)
  list(APPEND CPACK_COMPONENTS_ALL timing_wheel_desk)
endif()
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_MAINTAINER "${TIMING_WHEEL_MAINTAINER}")
set(CPACK_DEBIAN_PACKAGE_RELEASE ${TIMING_WHEEL_DEB_REVISION})
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS ${PROJECT_BINARY_DIR})
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS ON)
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS_POLICY ">=")
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_DEBIAN_PACKAGE_PRIORITY optional)

# timing_wheel_deb(COMPONENT NAME SECTION DEPENDS SUMMARY TEXT): a package, with its copyright and changelog.
function(timing_wheel_deb component name section depends summary text)
  string(TOUPPER ${component} upper)
  foreach(field IN ITEMS name section depends)
    string(TOUPPER ${field} field_upper)
    set(CPACK_DEBIAN_${upper}_PACKAGE_${field_upper} "${${field}}" PARENT_SCOPE)
  endforeach()
  if(section STREQUAL "libs")
    set(CPACK_DEBIAN_${upper}_PACKAGE_CONTROL_EXTRA ${PROJECT_SOURCE_DIR}/packaging/deb/triggers PARENT_SCOPE)
  endif()
  set(CPACK_DEBIAN_${upper}_DESCRIPTION "${summary}\n${text}" PARENT_SCOPE)
  if(TIMING_WHEEL_MAINTAINER)
    install(FILES ${deb_files}/copyright ${deb_files}/changelog.Debian.gz ${deb_files}/changelog.gz
      DESTINATION share/doc/${name} COMPONENT ${component})
  endif()
endfunction()

# Only a tree with somebody who answers for the packages has what only they need.
if(TIMING_WHEEL_MAINTAINER)
  set(deb_files ${PROJECT_BINARY_DIR}/deb)
  string(TIMESTAMP deb_date "%a, %d %b %Y %H:%M:%S +0000" UTC)
  configure_file(${PROJECT_SOURCE_DIR}/packaging/deb/changelog.in ${deb_files}/changelog.Debian @ONLY)
  configure_file(${PROJECT_SOURCE_DIR}/CHANGELOG.md ${deb_files}/changelog COPYONLY)
  execute_process(COMMAND gzip -9nf ${deb_files}/changelog.Debian ${deb_files}/changelog COMMAND_ERROR_IS_FATAL ANY)
  configure_file(${PROJECT_SOURCE_DIR}/packaging/deb/copyright ${deb_files}/copyright COPYONLY)
endif()
set(about "Timers that are scheduled and cancelled in constant time, by the million, on\none thread.")
timing_wheel_deb(timing_wheel_runtime libtiming-wheel${abi_version} libs ""
  "timer service on hierarchical timing wheels"
  "${about} This package has the shared library.")
timing_wheel_deb(timing_wheel_development libtiming-wheel-dev libdevel
  "libtiming-wheel${abi_version} (= ${deb_version}), libboost-dev (>= 1.74)"
  "timer service on hierarchical timing wheels (development)"
  "${about} This package has the headers, the static library, and\nwhat CMake and pkg-config need.")
if(TARGET timing_wheel_durable)
  timing_wheel_deb(timing_wheel_durable_runtime libtiming-wheel-durable${abi_version} libs
    "libtiming-wheel${abi_version} (= ${deb_version})"
    "timers that survive the process"
    "${about} This package has the shared library that keeps them\nin SQLite or PostgreSQL.")
  set(needed "libtiming-wheel-dev (= ${deb_version})" "libtiming-wheel-durable${abi_version} (= ${deb_version})"
    libsqlite3-dev libpq-dev)
  list(JOIN needed ", " needed)
  timing_wheel_deb(timing_wheel_durable_development libtiming-wheel-durable-dev libdevel "${needed}"
    "timers that survive the process (development)"
    "${about} This package has the headers, the static library, and\nwhat CMake and pkg-config need for them.")
endif()
if(TARGET timing_wheel_desk)
  timing_wheel_deb(timing_wheel_desk timing-wheel database
    "libtiming-wheel-durable${abi_version} (= ${deb_version})"
    "see and steer timers that survive the process"
    "${about} This package has the command line with which an\noperator sees and steers those in SQLite or PostgreSQL.")
endif()

include(CPack)
