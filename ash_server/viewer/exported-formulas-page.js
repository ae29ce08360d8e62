/** The exported page of a session with formulas: it contains the library that draws them. */
import { drawFormulasWith } from "./lib/markdown/formulas.js";
import { drawFormula } from "./lib/markdown/mathml.js";
import { showExportedSession } from "./session/exported-session.js";

drawFormulasWith(drawFormula);
showExportedSession();
