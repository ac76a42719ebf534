// tamis as a library: everything its public interface has.
#pragma once

#include "tamis/chat.h"
#include "tamis/generate.h"
#include "tamis/model.h"
#include "tamis/result.h"
