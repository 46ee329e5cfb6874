# cmake -C conf/presets/release.cmake -S . -B .build/release -G Ninja
set(CMAKE_BUILD_TYPE Release CACHE STRING "")
set(CMAKE_CXX_FLAGS_RELEASE "-O2 -g1 -DNDEBUG" CACHE STRING "")
