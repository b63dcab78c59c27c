npx @modelcontextprotocol/inspector --cli "$URL" --header "Authorization: Bearer $TOOLFLEET_API_KEY" --stored-auth-only --method tools/list
npx @modelcontextprotocol/inspector --cli "$URL" --header "Authorization: Bearer $TOOLFLEET_API_KEY" --stored-auth-only --method tools/call --tool-name "$TOOL" --tool-args-json "$ARGUMENTS"
