/** Paths of files, as tools have them. */

export const PATH = [
  ...["file_path", "filePath", "path", "absolute_path", "notebook_path", "target_file"],
  ...["file", "filename", "fileName", "relative_path", "relativePath", "relative_workspace_path", "uri"],
];

const SHOWN = 3;

/** The end of a path, by which a person knows it. */
export function tail(path) {
  const parts = path.split(/(?<=[\\/])(?=.)/);
  return parts.length > SHOWN + 1 ? `…/${parts.slice(-SHOWN).join("")}` : path;
}
