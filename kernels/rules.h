// Checks that the fields of a row cannot express. A row's `rules` and the `holds` of its attributes refer to them.
#ifndef WEFT_KERNELS_RULES_H_
#define WEFT_KERNELS_RULES_H_

#include "kernels/step_view.h"

namespace weft::kernels {

// Conditions on attributes.
bool WindowIsCausal(const StepView& s);
bool IsRecipeSequence(const StepView& s);
bool KvHeadsDivideHeads(const StepView& s);
bool ByHeadIsFused(const StepView& s);
bool RampFitsFactor(const StepView& s);
bool NoScaleBesideInput(const StepView& s);

// Checks of whole steps.
void CheckTf32(const StepView& s);                // MATMUL
void TableHoldsVocabulary(const StepView& s);     // EMBEDDING*
void PositionsFit(const StepView& s);             // POSITION_EMBEDDING*
void VocabularyIsThePrograms(const StepView& s);  // CROSS_ENTROPY*
void AttentionPlace(const StepView& s);           // ATTENTION*
void DropoutPlace(const StepView& s);             // DROPOUT, DROPOUT_MASK
void Masking(const StepView& s);                  // LOAD_TOKENS, LOAD_TARGETS
void SamplesAreImages(const StepView& s);         // LOAD_NOISY_IMAGE, LOAD_NOISE
void WholeImages(const StepView& s);              // CONV2D*, UPSAMPLE*; checks the symbol `rows`.
void FilterIsSquare(const StepView& s);           // CONV2D*
void CheckColumnRange(const StepView& s);         // SLICE_COLUMNS
void AxesAreCountedOnce(const StepView& s);       // SQUARED_NORM
void OptimizerIsTheRecipes(const StepView& s);    // ADAMW, SGD_STEP
void RoundingIsTheRecipes(const StepView& s);     // ADAMW, SGD_STEP
void GroupIsSound(const StepView& s);             // GROUP_*

}  // namespace weft::kernels

#endif  // WEFT_KERNELS_RULES_H_
