export { defineTool, type BuiltinTool, type ToolMetadata, type ToolRun, type ToolSpec } from './builtin-tool.js';
export { definitionOf, type ToolFigures } from './definition-of.js';
export { MANIFEST, toolsetOf, toolsOf } from './manifest.js';
export { ok, type ToolOutcome } from './outcome.js';
export { BoundedWork } from './bounded/bounded-work.js';
export { Toolbox, type AttemptOptions, type FaultHook } from './toolbox.js';
export type { ServiceName, ToolServices } from './tool-services.js';
