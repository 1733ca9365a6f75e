import { Stream } from './stream'
import type { AuditEntry, Component } from './types'

export const auditStream = new Stream<AuditEntry>('/audit/live', { key: (entry) => entry.id, limit: 500 })
export const componentStream = new Stream<Component>('/system/components/live', { key: (component) => component.name })
