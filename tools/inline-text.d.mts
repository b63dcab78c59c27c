export function inlineText(): import('esbuild').Plugin;
