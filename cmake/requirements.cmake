# What detail/requirements.hpp demands, said before anything is built.
if(NOT TIMING_WHEEL_REQUIREMENTS_MET)
  block(SCOPE_FOR VARIABLES)
    set(CMAKE_TRY_COMPILE_TARGET_TYPE STATIC_LIBRARY)
    try_compile(TIMING_WHEEL_REQUIREMENTS_MET
      SOURCE_FROM_CONTENT requirements.cpp "#include <timing_wheel/detail/requirements.hpp>\n"
      CMAKE_FLAGS -DINCLUDE_DIRECTORIES=${PROJECT_SOURCE_DIR}/include
      OUTPUT_VARIABLE output
      CXX_STANDARD 20
      CXX_EXTENSIONS OFF)
    if(NOT TIMING_WHEEL_REQUIREMENTS_MET)
      unset(TIMING_WHEEL_REQUIREMENTS_MET CACHE)
      string(REGEX MATCH "timing_wheel needs [^\"\n]*" reason "${output}")
      if(NOT reason)
        set(reason "the compiler does not work:\n${output}")
      endif()
      message(FATAL_ERROR "${reason}")
    endif()
  endblock()
endif()
