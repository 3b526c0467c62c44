#include "models/cabin/cabin_model.h"
#include "models/model.h"
#include "models/road/road_model.h"

namespace modeld::models {

Result<std::unique_ptr<Model>> make_model(const bundle::Manifest& manifest,
                                          exec::LoadedPlan& plan) {
  switch (manifest.role) {
    case bundle::Role::kRoad:
      return road::RoadModel::create(manifest, plan);
    case bundle::Role::kCabin:
      return cabin::CabinModel::create(manifest, plan);
    case bundle::Role::kGeneric:
      break;
  }
  return fail(Errc::kUnsupported,
              strf("bundle of role %s: only road and cabin can be driven frame by frame",
                   bundle::role_name(manifest.role)));
}

}  // namespace modeld::models
