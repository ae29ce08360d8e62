"""Read the changes of a tool call: from the report in its result, or else from its arguments."""

import re
import shlex
from collections.abc import Callable, Iterable, Mapping
from typing import Any
from urllib.parse import unquote

from ash_shared.model.blocks import without
from ash_shared.parsing.changes.hunks import MAX_LINE, Action, CallFacts, FileChange, Hunk
from ash_shared.parsing.changes.line_diff import (
    MAX_COMPARED,
    MAX_EDITS,
    diff_lines,
    hunks_of,
    lines_of,
    split_pair,
)
from ash_shared.parsing.changes.patches import (
    has_blocks,
    is_block,
    is_patch,
    read_blocks,
    read_hunks,
    read_patch,
    signed_lines,
    split_blocks,
)
from ash_shared.parsing.tool_names import normal_name
from ash_shared.records.json_fields import decode_arguments

_PATHS = (
    *("file_path", "filePath", "path", "absolute_path", "notebook_path", "target_file", "file", "filename"),
    *("fileName", "filepath", "relative_path", "relativePath", "relative_workspace_path", "uri"),
    *("AbsolutePath", "TargetFile", "notebookPath", "source_path", "sourcePath", "source"),
)
_NEW_PATHS = (
    *("move_path", "movePath", "new_path", "newPath", "destination", "destination_path", "destinationPath"),
    *("target_path", "to"),
)
_BEFORE = (
    *("old_string", "oldString", "old_str", "oldText", "old_text", "old_content", "TargetContent", "search"),
    *("before", "old"),
)
_AFTER = (
    *("new_string", "newString", "new_str", "newText", "new_text", "new_content", "ReplacementContent"),
    *("replace", "after", "new"),
)
_PATCHES = ("patch", "patchText", "patch_text", "patchContent", "input", "unified_diff", "diff", "fileDiff")
_REPORTED_PATCHES = (*_PATCHES, "detailedContent", "diffString")
_CONTENT = (
    *("content", "contents", "file_text", "fileText", "streamContent", "text", "data", "CodeContent"),
    *("new_source", "newCode", "new_text", "newText"),
)
_LISTS = (
    *("edits", "ReplacementChunks", "replacements", "edit", "multiStrReplace", "strReplace", "applyPatch"),
    "patches",
)
_COMMANDS = ("command", "cmd", "CommandLine", "commands", "script")
_REPEATS = ("replace_all", "replaceAll", "AllowMultiple")
_WRAPPERS = ("success", "filediff")
_VERBS: dict[str, Action] = {
    "add": "write",
    "create": "write",
    "create_file": "write",
    "delete": "delete",
    "delete_file": "delete",
    "move": "move",
    "update": "edit",
    "update_file": "edit",
}


def _names(text: str) -> frozenset[str]:
    return frozenset(map(normal_name, text.split()))


_KINDS: dict[str, frozenset[str]] = {
    "edit": _names(
        """edit multi_edit edit_file edit_files update_file smart_edit replace str_replace search_replace
        replace_in_file replace_file_content multi_replace_file_content replace_string_in_file editor
        multi_replace_string_in_file str_replace_file insert insert_edit_into_file insert_content apply_patch
        patch apply_diff file_change notebook_edit edit_notebook edit_notebook_file fast_apply
        applied_diff edited_existing_file append append_file append_to_file hashline_edit morph patch_many"""
    ),
    "write": _names(
        """write write_file write_to_file file_write create create_file save save_file create_new_file fs_write
        new_file_created"""
    ),
    "delete": _names("delete delete_file delete_path remove_file rm file_deleted"),
    "move": _names("move move_file move_path rename rename_file mv"),
    "read": _names(
        """read read_file read_files read_many_files view view_file view_image open_file cat notebook_read
        fs_read view_code_item"""
    ),
    "shell": _names(
        """bash shell local_shell shell_command run_shell_command exec exec_command unified_exec container_exec
        run_command run_commands execute execute_command execute_bash run_terminal_cmd run_terminal_command
        run_terminal run_in_terminal terminal shell_exec powershell bash_code_execution developer_shell"""
    ),
}
_KIND_OF = {name: kind for kind, names in _KINDS.items() for name in names}
_EDITORS = _names(
    """str_replace_editor str_replace_based_edit_tool str_replace_based_edit text_editor
    text_editor_code_execution developer_text_editor memory fs_write fs_read"""
)
_EDITOR_COMMANDS = {
    "view": "read",
    "create": "write",
    "write": "write",
    "str_replace": "edit",
    "insert": "edit",
    "append": "edit",
    "edit": "edit",
    "delete": "delete",
    "rename": "move",
}
_OF_SERVERS = _names("read_file write_file edit_file create_file delete_file move_file read_text_file")
"""Tools of MCP servers that work on files: other names, such as `delete`, may concern anything."""


def facts_of_call(tool: str, input: Any, structured: Any = None) -> CallFacts:
    """Return the files that a call changed and read, and its command.

    `structured` is the machine-readable form of its result, or the text if it has none. Never raises. The time is
    linear in the size of the values.
    """
    read = _READERS.get(kind_of_call(tool, input))
    if read is None:
        return CallFacts()
    adapt = _ADAPTED.get(normal_name(tool))
    return read(input if adapt is None or input.__class__ is not dict else adapt(input), structured)


CHANGING_KINDS = frozenset(("edit", "write", "delete", "move"))


def kind_of_call(tool: Any, call_input: Any) -> str:
    """Return the kind of a tool: read, edit, write, delete, move or shell; empty for any other."""
    if not isinstance(tool, str):
        return ""
    if tool.startswith("mcp__"):
        server, _, name = tool.removeprefix("mcp__").rpartition("__")
        normal = normal_name(name)
        if server:
            return _KIND_OF.get(normal, "read") if normal in _OF_SERVERS else ""
    normal = normal_name(tool)
    command = _text(call_input, ("command",)) if normal in _EDITORS else None
    if command is not None:
        return _EDITOR_COMMANDS.get(command, "")
    return _KIND_OF.get(normal, "")


def _field(value: Any, names: Iterable[str], kind: type | tuple[type, ...]) -> Any:
    """Return the first field with this type; None without one."""
    if value.__class__ is dict:
        for name in names:  # faster than a generator
            if name in value and isinstance(value[name], kind):
                return value[name]
    return None


def _text(value: Any, names: Iterable[str]) -> str | None:
    text: str | None = _field(value, names, str)
    return text


def _path(value: Any) -> str | None:
    path = _text(value, _PATHS)
    if path is None or path == "" or "\n" in path:
        return None
    return unquote(path.removeprefix("file://")) if path.startswith("file:///") else path


def _changes(action: Action) -> Callable[[Any, Any], CallFacts]:
    def read(call_input: Any, structured: Any) -> CallFacts:
        requested = _requested(call_input, action)
        reported = _reported(structured, requested)
        return CallFacts(_merge(requested, reported))

    return read


def _merge(requested: list[FileChange], reported: list[FileChange]) -> tuple[FileChange, ...]:
    """Return the reported changes, with the requested path if there is one of each, or else the requested ones."""
    if not reported:
        return tuple(requested)
    if len(requested) == len(reported) == 1:
        [asked], [done] = requested, reported
        if _is_dedented(done, asked):
            return (asked,)
        action = asked.action if done.action == "edit" else done.action
        return (done._replace(path=asked.path, action=action, new_path=asked.new_path or done.new_path),)
    return tuple(reported)


def _is_dedented(done: FileChange, asked: FileChange) -> bool:
    """True if the reported lines lack a part of their indentation, as in the diffs that OpenCode shows."""
    longest: dict[str, int] = {}
    for line in (line for hunk in done.hunks for line in hunk.lines):
        longest[line[1:].strip()] = max(len(line), longest.get(line[1:].strip(), 0))
    lines = [line for hunk in asked.hunks for line in hunk.lines if line[1:].strip()]
    return any(len(line) > longest.get(line[1:].strip(), len(line)) for line in lines)


# Reports in results


def _reported(structured: Any, requested: list[FileChange]) -> list[FileChange]:
    if isinstance(structured, str):
        return _in_report(structured, requested)
    wrapped: Any = _field(structured, _WRAPPERS, dict)
    if wrapped is not None:
        return _reported_by(wrapped, requested) or _reported_by(structured, requested)
    return _reported_by(structured, requested)


_CREATED = re.compile(r"\b(?:new file|created file|file created)\b", re.IGNORECASE)
_MAX_NOTE = 1000
"""Characters at the beginning of a result, which may say that the file is new."""
_REPORT_BEGIN, _REPORT_END = "[diff_block_start]\n", "[diff_block_end]"


def _in_report(text: str, requested: list[FileChange]) -> list[FileChange]:
    """Return the changes that the text of a result states: Antigravity's contain a diff."""
    if len(requested) != 1:
        return []
    begin, end = text.find(_REPORT_BEGIN), text.find(_REPORT_END)
    hunks = read_hunks(text[begin + len(_REPORT_BEGIN) : end]) if 0 <= begin < end else ()
    if hunks:
        return [requested[0]._replace(hunks=hunks, is_partial=False)]
    return [_as_new(requested[0])] if _CREATED.search(text, 0, _MAX_NOTE) else []


def _reported_by(structured: Any, requested: list[FileChange]) -> list[FileChange]:
    path = _path(structured) or (requested[0].path if len(requested) == 1 else None)
    hunks = _structured_hunks(_field(structured, ("structuredPatch",), list))
    if hunks and path:
        return [FileChange(path, "edit", hunks)]
    if _is_new(structured):
        content = _text(structured, ("content",))
        return (
            list(map(_as_new, requested)) if content is None or path is None else [_new_file(path, content)]
        )
    by_path = _field(structured, ("changes",), (dict, list))
    files = _field(structured, ("files",), list)
    if by_path is not None or files is not None:
        changes = _listed(by_path if by_path is not None else files)
        return [change for change in changes if change.hunks]
    return _reported_patch(structured, path, requested)


def _is_new(structured: Any) -> bool:
    """True if a result states that its file did not exist before."""
    is_update = _field(structured, ("is_file_update",), bool)
    return is_update is False or _text(structured, ("type",)) == "create"


def _as_new(change: FileChange) -> FileChange:
    if change.action != "write" or len(change.hunks) != 1:
        return change
    return change._replace(hunks=(Hunk(0, 1, change.hunks[0].lines),), is_partial=False)


def _reported_patch(structured: Any, path: str | None, requested: list[FileChange]) -> list[FileChange]:
    texts = _of_whole_texts(structured, path or "")
    if path is not None and texts is not None:
        return [texts]
    patch = _text(structured, _REPORTED_PATCHES)
    if patch is not None and is_patch(patch):
        changes = read_patch(patch, path)
        return [change._replace(path=path) for change in changes] if path and len(changes) == 1 else changes
    if path is None:
        return []
    is_needed = not any(change.hunks for change in requested)
    hunks = signed_lines(patch, _text(structured, ("afterFullFileContent",))) if patch and is_needed else ()
    return [FileChange(path, "edit", hunks)] if hunks else []


def _of_whole_texts(value: Any, path: str, *, compares: bool = True) -> FileChange | None:
    """Return the change between the texts of a file before and after it, which OpenCode reports."""
    before, after = (_text(value, (name,)) for name in ("before", "after"))
    if before is None or after is None:
        return None
    if before == "":
        return _new_file(path, after)
    lines = diff_lines(lines_of(before), lines_of(after), MAX_EDITS if compares else 0)
    return FileChange(path, "delete" if after == "" else "edit", tuple(hunks_of(1, 1, lines)))


def _structured_hunks(values: list[Any] | None) -> tuple[Hunk, ...]:
    return tuple(_structured_hunk(value) for value in values or () if _is_hunk(value))


def _is_hunk(value: Any) -> bool:
    old, new = _field(value, ("oldStart",), int), _field(value, ("newStart",), int)
    if old is None or new is None or not (0 <= old <= MAX_LINE and 0 <= new <= MAX_LINE):
        return False
    return all(isinstance(line, str) for line in _field(value, ("lines",), list) or ())


def _structured_hunk(value: Mapping[str, Any]) -> Hunk:
    lines = [line for line in value.get("lines") or () if line[:1] in _SIGNS]
    return Hunk(value["oldStart"], value["newStart"], tuple(lines))


_SIGNS = ("+", "-", " ")


# Requests in arguments


def _requested(call_input: Any, action: Action) -> list[FileChange]:
    if isinstance(call_input, str):
        return read_patch(call_input) if is_patch(call_input) else []
    changes = _field(call_input, ("changes",), (dict, list))
    if changes is not None:
        return _listed(changes)
    path = _path(call_input)
    patch = _text(call_input, _PATCHES)
    if patch is not None and path is None:
        return read_patch(patch) if is_patch(patch) else []
    parts = _field(call_input, _LISTS, (list, dict))
    if parts is None:
        action = _VERBS.get(_text(call_input, ("type",)) or "", action)
        return [] if path is None else [_one(call_input, path, action)]
    return _of_parts(parts if isinstance(parts, list) else _inner(parts), path, action)


def _inner(parts: dict[str, Any]) -> list[Any]:
    edits: list[Any] = _field(parts, ("edits",), list) or [parts]
    return edits


def _of_parts(parts: list[Any], path: str | None, action: Action) -> list[FileChange]:
    """Return the changes of a list of edits, one per file."""
    files: dict[str, list[FileChange]] = {}
    for number, part in enumerate(parts):
        place = _path(part) or path
        if place is not None and isinstance(part, dict):
            change = _one(part, place, action, compares=number < MAX_COMPARED)
            files.setdefault(place, []).append(change)
    return [_joined(path, changes) for path, changes in files.items()]


def _joined(path: str, changes: list[FileChange]) -> FileChange:
    hunks = tuple(hunk for change in changes for hunk in change.hunks)
    return changes[0]._replace(
        path=path, hunks=hunks, is_partial=any(change.is_partial for change in changes)
    )


def _listed(changes: dict[str, Any] | list[Any]) -> list[FileChange]:
    """Return the changes of a table by path or of a list."""
    if isinstance(changes, list):
        paired = [(_path(change), change) for change in changes]
    else:
        paired = [(_path(change) or path, change) for path, change in changes.items()]
    return [
        _one_listed(change, path, compares=number < MAX_COMPARED)
        for number, (path, change) in enumerate(paired)
        if path
    ]


def _one_listed(change: Any, path: str, *, compares: bool) -> FileChange:
    if isinstance(change, str):
        return FileChange(path, "edit", read_hunks(change))
    kind = _field(change, ("kind", "type"), (str, dict))
    verb = kind if isinstance(kind, str) else _text(kind, ("type",))
    whole = _of_whole_texts(change, path, compares=compares)
    if whole is not None:
        return whole._replace(new_path=_text(change, _NEW_PATHS))
    listed = _one(change, path, _VERBS.get(verb or "", "edit"), compares=compares)
    return _as_new(listed) if verb == "add" else listed


def _one(value: Any, path: str, action: Action, *, compares: bool = True) -> FileChange:
    """Return the change of a file, from the first form that the value has."""
    new_path = _text(value, _NEW_PATHS)
    change = _of_patch(value, path, action) or _of_texts(value, path, action, compares=compares)
    return change._replace(new_path=new_path) if new_path is not None else change


def _of_patch(value: Any, path: str, action: Action) -> FileChange | None:
    """Return the change that a patch or blocks describe; None without them."""
    patch, content = _text(value, _PATCHES), _text(value, _CONTENT)
    if patch is not None and is_patch(patch) and not is_block(patch):
        return FileChange(path, action, read_hunks(patch))
    blocks = next((text for text in (patch, content) if text is not None and has_blocks(text)), None)
    if action == "edit" and blocks is not None:
        return FileChange(path, action, read_blocks(blocks))
    if action == "write" and content is None and patch is not None:
        return FileChange(path, action, signed_lines(patch), None, True)
    return None


def _of_texts(value: Any, path: str, action: Action, *, compares: bool) -> FileChange:
    content = _text(value, _CONTENT)
    if action == "delete":
        lines = tuple(f"-{line}" for line in lines_of(content or ""))
        return FileChange(path, action, (Hunk(1, 0, lines),) if lines else (), None, content is None)
    if action == "move":
        return FileChange(path, action, ())
    if action == "edit":
        return _of_edit(value, path, content, compares=compares)
    hunks = _added(_text(value, _AFTER) if content is None else content)
    return FileChange(path, "edit", hunks) if _appends(value) else FileChange(path, action, hunks, None, True)


def _appends(value: Any) -> bool:
    return "append" in (_text(value, ("mode",)), _text(value, ("command",)))


def _of_edit(value: Any, path: str, content: str | None, *, compares: bool) -> FileChange:
    before, after = _text(value, _BEFORE), _text(value, _AFTER)
    inserted = _inserted(value)
    if inserted:
        return FileChange(path, "edit", inserted)
    if _appends(value):
        return FileChange(path, "edit", _added(after if content is None else content))
    if before is not None:
        is_repeated = any(_field(value, (name,), bool) for name in _REPEATS)
        return FileChange(
            path, "edit", _replacement(before, after or "", compares=compares), None, is_repeated
        )
    return FileChange(path, "edit", _added(content), None, True)


def _inserted(value: Any) -> tuple[Hunk, ...]:
    line = _field(value, ("insert_line", "insertLine"), int)
    text = _text(value, ("insert_text", "insertText", "new_str", "new_text"))
    if line is None or text is None or not 0 <= line <= MAX_LINE:
        return ()
    return (Hunk(line, line + 1, tuple(f"+{each}" for each in lines_of(text))),)


def _replacement(before: str, after: str, *, compares: bool = True) -> tuple[Hunk, ...]:
    old, new = split_pair(before, after)
    lines = diff_lines(old, new, max_edits=MAX_EDITS if compares else 0)
    return () if before == after else (Hunk(None, None, tuple(lines)),)


def _added(text: str | None) -> tuple[Hunk, ...]:
    return () if not text else (Hunk(None, None, tuple(f"+{line}" for line in lines_of(text))),)


def _new_file(path: str, content: str) -> FileChange:
    return _as_new(FileChange(path, "write", _added(content), None, True))


# Reads and commands


def _read(call_input: Any, _structured: Any) -> CallFacts:
    listed = _field(call_input, ("paths", "files", "file_paths", "filePaths"), list) or []
    paths = [
        _path({"path": each}) if isinstance(each, str) else _path(each) for each in [call_input, *listed]
    ]
    return CallFacts(reads=tuple(dict.fromkeys(path for path in paths if path)))


# Tools with a form of their own


def _as_appended(call_input: dict[str, Any]) -> dict[str, Any]:
    return {**call_input, "mode": "append"}


def _as_edits(call_input: dict[str, Any]) -> dict[str, Any]:
    """Return the patches of several files as a list: gptme writes it as JSON, or the patches as one text."""
    text, patches = _text(call_input, _CONTENT), _text(call_input, ("patches",))
    if patches is not None:
        return {"edits": decode_arguments(patches)}
    if text is None:
        return call_input
    paths = (_text(call_input, ("arguments",)) or "").split()
    return {"edits": [{"path": path, "patch": patch} for path, patch in split_blocks(text, paths)]}


def _as_added_lines(call_input: dict[str, Any]) -> dict[str, Any]:
    """Return the lines that gptme's `hashline_edit` adds. The lines that it replaces are not in the call."""
    lines = (_text(call_input, _CONTENT) or "").splitlines()
    added = "\n".join(line[1:] for line in lines if line.startswith("+"))
    return {**without(call_input, *_CONTENT), "content": added}


_ADAPTED: Mapping[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
    **dict.fromkeys(_names("append append_file append_to_file"), _as_appended),
    **dict.fromkeys(_names("hashline_edit"), _as_added_lines),
    **dict.fromkeys(_names("patch_many"), _as_edits),
}


_HEREDOC = re.compile(r"\s*(?:cd [^\s&]+ && )?apply_?patch <<")


def _shell(call_input: Any, _structured: Any) -> CallFacts:
    command = _field(call_input, _COMMANDS, (str, list)) if isinstance(call_input, dict) else call_input
    if isinstance(command, list):
        return _shell_of_list(command, is_argv=not _field(call_input, ("commands",), list))
    return _shell_of_text(command) if isinstance(command, str) else CallFacts()


def _shell_of_list(command: list[Any], *, is_argv: bool) -> CallFacts:
    words = [word for word in command if isinstance(word, str)]
    if not is_argv:
        return CallFacts(command="\n".join(words) or None)
    if len(words) == 2 and words[0].rpartition("/")[2] in ("apply_patch", "applypatch"):
        return CallFacts(tuple(read_patch(words[1])))
    is_script = len(words) == 3 and words[1] in ("-c", "-lc")
    return _shell_of_text(words[2] if is_script else shlex.join(words))


def _shell_of_text(command: str) -> CallFacts:
    patch = (
        command[start:] if _HEREDOC.match(command) and (start := command.find("*** Begin Patch")) >= 0 else ""
    )
    changes = tuple(read_patch(patch.partition("*** End Patch")[0]))
    return CallFacts(changes) if changes else CallFacts(command=command or None)


_READERS: dict[str, Callable[[Any, Any], CallFacts]] = {
    "edit": _changes("edit"),
    "write": _changes("write"),
    "delete": _changes("delete"),
    "move": _changes("move"),
    "read": _read,
    "shell": _shell,
}
