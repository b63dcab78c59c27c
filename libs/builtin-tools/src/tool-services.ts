/** What a process hands to the tools it serves; a tool names those it needs, and gets them typed. */
export interface ToolServices {
  placeholder: never;
}
export type ServiceName = keyof ToolServices;
