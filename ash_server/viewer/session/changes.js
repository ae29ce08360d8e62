/** Reports of changes, as the API returns them. No DOM. */
import { formatNumber, pluralize } from "../lib/number-format.js";

/**
 * "+12 −3"; empty if nothing is known.
 *
 * @param {{added?: number, removed?: number, isLowerBound?: boolean}} lines
 */
export function lineCounts({ added = 0, removed = 0, isLowerBound }) {
  const parts = [added > 0 && `+${formatNumber(added)}`, removed > 0 && `−${formatNumber(removed)}`];
  const text = parts.filter(Boolean).join(" ");
  return text && isLowerBound ? `${text} or more` : text;
}

/** "3 changed files +12 −3". */
export function changedFilesText(count, lines) {
  return [pluralize(count, "changed file"), lineCounts(lines)].filter(Boolean).join(" ");
}

/** The part of a report about one turn. */
export function changesOfTurn(report, number) {
  const turn = report.turns.find((each) => each.turn === number);
  const files = report.files.flatMap((file) => {
    const edits = file.edits.filter((edit) => edit.turn === number);
    if (!edits.length) return [];
    const names = [file.path, file.newPath, ...file.edits.map(({ newPath }) => newPath)];
    const counted = turn?.files.find(({ path }) => names.includes(path));
    const unknown = { path: file.path, status: "changed", isComposed: true, added: 0, removed: 0 };
    return [{ ...(counted ?? unknown), edits }];
  });
  const isCounted = ({ outcome, isRetracted }) => outcome === "ok" && !isRetracted;
  return {
    ...report,
    files,
    turns: turn ? [turn] : [],
    commands: report.commands.filter((call) => call.turn === number),
    filesChanged: turn?.files.length ?? 0,
    added: turn?.added ?? 0,
    removed: turn?.removed ?? 0,
    isLowerBound: turn?.isLowerBound,
    notCounted: files.flatMap(({ edits }) => edits).filter((edit) => !isCounted(edit)).length,
  };
}

/** All differences as one patch. */
export function patchOf({ files }) {
  return files.map(({ diff }) => diff ?? "").join("");
}
