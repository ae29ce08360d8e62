"""Tool calls with arguments and results of all forms; each leaf contains a unique word."""

import random
from typing import Any

Json = Any

NAMES: list[str] = """
    Bash exec_command code_interpreter Edit MultiEdit apply_patch replace str_replace_editor Write create_file delete
    Read read_many_files view_image Grep Glob ls file_search TodoWrite update_plan TaskUpdate Task spawn_agent WebFetch
    WebSearch mcp__a__b mcp ExitPlanMode AskUserQuestion computer get_weather toString
""".split()  # noqa: SIM905 - a text to read

GROUPS = [
    group.split()
    for group in (
        "command cmd commands description workdir timeout language code input",
        "stdout stderr exitCode exit_code interrupted output metadata success error rejected",
        "file_path path paths offset limit content file_text streamContent",
        "file_path old_string new_string edits changes patch replace_all instruction",
        "path type kind diff unified_diff content move_path",
        "structuredPatch oldStart newStart lines filePath diffString linesAdded filediff changes",
        "pattern query queries path glob output_mode target_directories",
        "file filename filenames files numFiles matches lineNumber content text score",
        "workspaceResults directoryTreeRoot childrenFiles childrenDirs name absPath",
        "todos plan items explanation step status completed content description id",
        "prompt message description subagent_type task model",
        "url urls query prompt results sources title name page_age",
        "questions question header options label description answers",
        "action coordinate x y text keys url",
        "server toolName name args arguments providerIdentifier",
        "type text citations thinking signature id name input tool_use_id",
        "type source media_type data url file_id content title context",
        "type filename mimeType size storagePath source mediaClass transcript",
        "type raw rawType reason code message hint constructor __proto__ toString",
    )
]
"""Keys that tool cards read, in lists of keys that occur together."""

SHAPES = (
    "{0}",
    "{0}\n{1}",
    "     1→{0}\n     2→{1}",
    "a.py:1:{0}\na.py:2:{1}",
    "@@ -1,1 +1,1 @@\n-{0}\n+{1}",
    "*** Begin Patch\n*** Update File: {0}\n-{1}\n*** End Patch",
    "Exit code: 1\nWall time: {0}\nOutput:\n{1}",
    '{{"{0}": ["{1}"]}}',
    '[{{"type": "text", "text": "{0}"}}]',
    '{{"todos": [{{"content": "{0}", "status": "{1}"}}]}}',
    "https://{0}.example/{1}",
    "data:text/plain,{0}",
    "*{0}* `{1}`",
    "/{0}/b/c/d/e/{1}.py",
)
"""Texts that tool cards may parse."""

WORDS: tuple[Json, ...] = (
    None,
    True,
    False,
    "",
    "completed",
    "in_progress",
    "text",
    "image",
    "file",
    "raw",
    "create",
    "url",
    0,
    [],
    {},
)


class Payloads:
    def __init__(self, seed: int) -> None:
        self.choose = random.Random(seed)
        self.leaves: list[str] = []

    def call(self) -> list[tuple[str, Json]]:
        name = self.choose.choice(NAMES)
        extra = {"later": self.value()} if self.choose.random() < 0.2 else {}
        result = {"result": self.value(), "structured": self.value(), **self.error(), **extra}
        return [("call", {"toolName": name, "args": self.value(), **extra}), ("result", result)]

    def error(self) -> dict[str, Json]:
        failure = {"error": {"code": self.leaf(), "message": self.text()}}
        return {**failure, "exitCode": self.number()} if self.choose.random() < 0.5 else failure

    def value(self, depth: int = 0) -> Json:
        many, some = (3, 4) if depth < 4 else (0, 0)
        kinds = (self.text, self.number, self.word, lambda: self.items(depth), lambda: self.object(depth))
        return self.choose.choices(kinds, (6, 1, 2, many, some))[0]()

    def items(self, depth: int) -> list[Json]:
        one = self.choose.choice((self.text, lambda: self.object(depth + 1), lambda: self.value(depth + 1)))
        return [one() for _ in range(self.choose.randrange(4))]

    def object(self, depth: int) -> dict[str, Json]:
        group = self.choose.choice(GROUPS)
        keys = self.choose.sample(group, self.choose.randrange(min(7, len(group))))
        return {key: self.value(depth + 1) for key in keys}

    def text(self) -> str:
        shape = self.choose.choice(SHAPES)
        return shape.format(*(self.leaf() for place in (0, 1) if f"{{{place}}}" in shape))

    def leaf(self) -> str:
        self.leaves.append(f"w{len(self.leaves):04}")
        return self.leaves[-1]

    def number(self) -> int:
        self.leaves.append(str(900_000 + len(self.leaves)))
        return int(self.leaves[-1])

    def word(self) -> Json:
        return self.choose.choice(WORDS)
