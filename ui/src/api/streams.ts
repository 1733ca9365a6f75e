import { Stream } from './stream'
import type { AlertEvent, AuditEntry, Component } from './types'

export const auditStream = new Stream<AuditEntry>('/audit/live', { key: (entry) => entry.id, limit: 500 })
export const componentStream = new Stream<Component>('/system/components/live', { key: (component) => component.name })
export const alertStream = new Stream<AlertEvent>('/alerts/events/live', { key: (event) => event.id, limit: 50 })
