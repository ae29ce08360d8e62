import { loadFormulasWith } from "./markdown/formulas.js";

/** Load the library for formulas when a page has one. The address is the same from this module and from its bundle. */
export function loadFormulasOnDemand() {
  // @ts-ignore: the server makes the bundle
  loadFormulasWith(async () => (await import("../bundled/formulas.js")).drawFormula);
}
