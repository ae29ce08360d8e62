/** File paths in arguments and results of tools. */

export const PATH_KEYS = [
  "file_path", "filePath", "path", "absolute_path", "notebook_path", "target_file",
  "file", "filename", "fileName", "relative_path", "relativePath", "relative_workspace_path", "uri",
  "AbsolutePath", "TargetFile",
];

const TAIL_SEGMENTS = 3;

/** The last segments of a path. */
export function pathTail(path) {
  const parts = path.split(/(?<=[\\/])(?=.)/);
  return parts.length > TAIL_SEGMENTS + 1 ? `…/${parts.slice(-TAIL_SEGMENTS).join("")}` : path;
}
