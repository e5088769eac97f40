# cmake -DOUTPUT=... -DINPUTS=name=file;... -P embed.cmake: shell files as C++ string constants, without their comments and
# indentation. So no line of theirs may begin, within quotes, with '#' or with blanks that matter.
set(code "#include \"probe/scripts.hpp\"\n\nnamespace trueup {\n")
foreach(input IN LISTS INPUTS)
  string(REGEX MATCH "^([^=]+)=(.+)$" _ "${input}")
  set(name ${CMAKE_MATCH_1})
  file(READ ${CMAKE_MATCH_2} text)
  string(REGEX REPLACE "(^|\n)([ \t]*(#[^\n]*)?\n)+" "\\1" text "${text}")
  string(REGEX REPLACE "(^|\n)[ \t]+" "\\1" text "${text}")
  string(APPEND code "\nconst std::string_view ${name} = R\"____(${text})____\";\n")
endforeach()
string(APPEND code "\n}  // namespace trueup\n")
file(WRITE ${OUTPUT} "${code}")
