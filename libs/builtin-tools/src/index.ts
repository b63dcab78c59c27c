export { defineTool, type BuiltinTool, type ToolMetadata, type ToolRun, type ToolSpec } from './builtin-tool.js';
export { definitionOf, type ToolFigures } from './manifest.js';
export { MANIFEST, toolsetOf, toolsOf } from './manifest.js';
export { ok, type ToolOutcome } from './builtin-tool.js';
export { ToolRunner, type AttemptOptions, type FaultHook } from './tool-runner.js';
export type { ServiceName, ToolServices } from './builtin-tool.js';

export { BoundedWork, boundsOf } from './bounded/bounded-work.js';
export { PLUGIN_API, PluginFolder, type Plugin, type PluginApi, type PluginChanges } from './plugins/plugin-folder.js';

export { LocalWorkspaceStore } from './files/local-workspace-store.js';
export { S3WorkspaceStore } from './files/s3-workspace-store.js';
export { WorkspaceStore } from './files/workspace-store.js';
export { DEFAULT_WORKSPACE_LIMITS, Workspaces, type WorkspaceLimits } from './files/workspaces.js';

export { PageReader } from './web/page-reader.js';
export { Robots } from './web/robots.js';
export { SearchProvider, type SearchResult } from './web/search-providers.js';
export {
  HttpSearchProvider,
  LocalSearchProvider,
  PROVIDER_URLS,
  SEARCH_PROVIDERS,
  type SearchProviderName,
} from './web/search-providers.js';

export type { AgentServices } from './agent/agent-services.js';
export { ChatModel } from './agent/chat-model.js';
export { OpenAiChatModel, type ChatEndpoint } from './agent/chat-model.js';
export { Spending, type SliceAmount, type SliceRefusal } from './agent/agent-services.js';
export { ToolCaller, type CallerGrant } from './agent/agent-services.js';
