#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "trueup/environment.hpp"
#include "trueup/result.hpp"

namespace trueup {

/// One host's facts as they were stored.
struct StoredFacts {
  std::string name;  ///< the inventory's; where the facts do not tell, the host's own
  Environment environment;
  SourcePos at;
};

/// The hosts of a file of facts, at least one. Errors, with the place: no JSON, something else than facts, facts of
/// another schema, a host without a name.
///   file ::= (facts | '[' facts (',' facts)* ']')+       facts ::= what `trueup facts` prints, derived facts passed
///   over
Result<std::vector<StoredFacts>> load_facts(std::string_view text, const std::string& file);

}  // namespace trueup
