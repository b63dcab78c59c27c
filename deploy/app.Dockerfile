# syntax=docker/dockerfile:1
# One image recipe for every service: docker build -f deploy/app.Dockerfile --build-arg APP=gateway -t toolfleet/gateway:0.1.0 .
# A release names it with its digest (npm run deploy:pin -- --base deploy/app.Dockerfile).
ARG NODE_IMAGE=node:24-slim

# On the machine that builds, for every platform: a bundle has no code that depends on one, except files that it has for each.
FROM --platform=${BUILDPLATFORM} ${NODE_IMAGE} AS build
WORKDIR /src
COPY . .
RUN --mount=type=cache,target=/root/.npm npm ci --ignore-scripts --no-audit --no-fund
RUN npm run build
ARG APP
RUN node tools/bundle.mjs "${APP}"

FROM ${NODE_IMAGE}
ARG APP
ARG REVISION=unknown
LABEL org.opencontainers.image.title="toolfleet ${APP}" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.revision="${REVISION}"
WORKDIR /app
# Owned by root and not writable by the service's user: the root file system is mounted read-only as well.
COPY --from=build /src/build/${APP}/ ./
# Mount points of volumes: a new named volume takes the owner of the folder it covers.
RUN mkdir -m 0750 /data /workspaces && chown 10001:10001 /data /workspaces
ENV NODE_ENV=production \
    ADMIN_HOST=0.0.0.0 \
    ADMIN_PORT=9464 \
    GATEWAY_HOST=0.0.0.0 \
    GATEWAY_PORT=8080 \
    POLICY_DIR=/app/policies \
    CONSOLE_DIR=/app/console \
    TOOLFLEET_REVISION=${REVISION}
USER 10001:10001
EXPOSE 9464
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=5s --timeout=3s --start-period=60s --retries=3 \
  CMD ["node", "-e", "fetch(`http://127.0.0.1:${process.env.ADMIN_PORT}/health/ready`).then((r) => process.exit(r.ok ? 0 : 1), () => process.exit(1))"]
ENTRYPOINT ["node", "main.js"]
