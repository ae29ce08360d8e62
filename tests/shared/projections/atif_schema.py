"""The schema of ATIF 1.8, with the checks of Harbor's models (`harbor.models.trajectories`): no unknown keys."""

from datetime import datetime
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

Json = dict[str, Any]
Count = Annotated[int, Field(ge=0)]


def _iso_8601(text: str) -> str:
    datetime.fromisoformat(text)
    return text


class Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class Image(Strict):
    media_type: Literal["image/jpeg", "image/png", "image/gif", "image/webp"]
    path: str


class Audio(Strict):
    media_type: Literal[
        "audio/wav",
        "audio/mpeg",
        "audio/mp4",
        "audio/aac",
        "audio/ogg",
        "audio/flac",
        "audio/webm",
        "audio/aiff",
    ]
    path: str
    duration_sec: Annotated[float, Field(ge=0)] | None = None


class TextPart(Strict):
    type: Literal["text"]
    text: str


class ImagePart(Strict):
    type: Literal["image"]
    source: Image


class AudioPart(Strict):
    type: Literal["audio"]
    source: Audio


Content = str | list[Annotated[TextPart | ImagePart | AudioPart, Field(discriminator="type")]]


class Agent(Strict):
    name: str
    version: str
    model_name: str | None = None
    tool_definitions: list[Json] | None = None
    extra: Json | None = None


class ToolCall(Strict):
    tool_call_id: str
    function_name: str
    arguments: Json
    extra: Json | None = None


class SubagentRef(Strict):
    trajectory_id: str
    session_id: str | None = None
    trajectory_path: str | None = None
    extra: Json | None = None


class Result(Strict):
    source_call_id: str | None = None
    content: Content | None = None
    subagent_trajectory_ref: list[SubagentRef] | None = None
    extra: Json | None = None


class Observation(Strict):
    results: list[Result]


class Metrics(Strict):
    prompt_tokens: Count | None = None
    completion_tokens: Count | None = None
    cached_tokens: Count | None = None
    cost_usd: float | None = None
    extra: Json | None = None


class Step(Strict):
    step_id: int
    timestamp: Annotated[str, AfterValidator(_iso_8601)] | None = None
    source: Literal["system", "user", "agent"]
    message: Content
    is_copied_context: bool | None = None
    model_name: str | None = None
    reasoning_content: str | None = None
    tool_calls: list[ToolCall] | None = None
    observation: Observation | None = None
    metrics: Metrics | None = None
    llm_call_count: Count | None = None
    extra: Json | None = None

    @model_validator(mode="after")
    def check(self) -> Self:
        of_agent = (self.model_name, self.reasoning_content, self.tool_calls, self.metrics)
        assert self.source == "agent" or of_agent == (None, None, None, None)
        assert self.llm_call_count != 0 or (self.metrics, self.reasoning_content) == (None, None)
        calls = {call.tool_call_id for call in self.tool_calls or ()}
        results = self.observation.results if self.observation else ()
        assert {result.source_call_id for result in results} <= {None, *calls}
        return self


class FinalMetrics(Strict):
    total_prompt_tokens: Count | None = None
    total_completion_tokens: Count | None = None
    total_cached_tokens: Count | None = None
    total_cost_usd: float | None = None
    total_steps: Count | None = None
    extra: Json | None = None


class Trajectory(Strict):
    schema_version: Literal["ATIF-v1.7", "ATIF-v1.8"]
    session_id: str | None = None
    trajectory_id: str | None = None
    agent: Agent
    steps: Annotated[list[Step], Field(min_length=1)]
    final_metrics: FinalMetrics | None = None
    subagent_trajectories: "list[Trajectory] | None" = None

    @model_validator(mode="after")
    def check(self) -> Self:
        assert [step.step_id for step in self.steps] == [*range(1, len(self.steps) + 1)]
        embedded = [each.trajectory_id for each in self.subagent_trajectories or ()]
        assert None not in embedded
        assert len({*embedded}) == len(embedded)
        return self

    def unresolved(self) -> set[str]:
        """Return the references to trajectories that the document does not contain."""
        embedded = self.subagent_trajectories or []
        refs = {
            ref.trajectory_id
            for trajectory in (self, *embedded)
            for step in trajectory.steps
            for result in (step.observation.results if step.observation else ())
            for ref in result.subagent_trajectory_ref or ()
        }
        return refs - {str(each.trajectory_id) for each in embedded}
