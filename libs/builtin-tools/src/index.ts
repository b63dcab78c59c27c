export { defineTool, ok, type BuiltinTool, type ToolOutcome, type ToolServices } from './builtin-tool.js';
export type { ToolRun } from './tool-run.js';
export { getToolset, MANIFEST, selectTools, toToolDefinition, type ToolOverrides } from './manifest.js';
export { ToolRunner } from './tool-runner.js';

export { BoundedWork } from './bounded/bounded-work.js';
export type { Plugin } from './plugins/plugin-api.js';
export { PluginFolder } from './plugins/plugin-folder.js';
export { PluginProcesses } from './plugins/plugin-processes.js';

export { LocalWorkspaceStore } from './files/local-workspace-store.js';
export { S3WorkspaceStore } from './files/s3-workspace-store.js';
export { WorkspaceStore } from './files/workspace-store.js';
export { Workspaces } from './files/workspaces.js';
export { DEFAULT_WORKSPACE_LIMITS } from './files/quota.js';

export { PageReader } from './web/page-reader.js';
export { Robots } from './web/robots.js';
export {
  HttpSearchProvider,
  LocalSearchProvider,
  providerUrl,
  SEARCH_PROVIDERS,
  SearchProvider,
} from './web/search-provider.js';

export {
  Spending,
  ToolCaller,
  type AgentServices,
  type CallerGrant,
  type SliceAmount,
  type SliceRefusal,
} from './agent/agent-services.js';
export { OpenAiChatModel } from './agent/chat-model.js';
